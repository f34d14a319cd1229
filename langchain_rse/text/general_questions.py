"""General questions, unrelated to most documents."""

GENERAL_QUESTIONS = """\
What is the capital of France?
How do I boil an egg?
Who won the football match last night?
How many legs does a spider have?
What was the company's revenue last year?
How long is the notice period in the contract?
Which medicine is given for high blood pressure?
Who is the main character of the novel?
What did the committee decide about the budget?
How do I reset my password?
When does the next train leave?
What is the warranty period of the washing machine?
Why did the king leave his castle?
How does photosynthesis work?
Who painted the ceiling of the chapel?
What did my sister say about her new job?
How much does a ticket to the museum cost?
Which planets have rings?
What are the side effects of the vaccine?
How is the engine oil changed?
What happens if a party breaks the agreement?
How many goals did the team score this season?
Which spices belong in a curry?
Where can I park near the airport?
What data does the app collect about its users?
How do I install the printer driver?
When was the cathedral built?
What is the speed limit on the motorway?
Why do bees dance?
How do I train a puppy to sit?
Which vitamins does a child need?
What did the court say about the appeal?
How is cheese made?
What is the interest rate of the loan?
Who invented the telephone?
How do I prune roses in winter?
What is the deadline for the application?
How does the function sort a list?
What caused the fall of the Roman Empire?
Which hotel did we book for the holiday?
What is the tallest mountain in the world?
How do earthquakes start?
What does the teacher expect from the students?
How do I remove a wine stain?
Which party won the election?
What is the melting point of iron?
How many people live in the city?
What did the patient complain about?
How do I learn to swim?
Who sings the song in the film?
What are the rules of chess?
How is glass recycled?
Which exercises help against back pain?
Why is the sky blue?
What was the weather like in April?
How do I knit a scarf?
When do the shops open on Sunday?
What does the new law say about rents?
How far away is the nearest star?
What is the recipe for bread?
How many shares did the director sell?
What was the result of the experiment?
Who is responsible for safety on the building site?
Which shoes are good for running?
What size are the batteries of the camera?
How did the war end?
What is a symphony?
How deep is the ocean?
Which exhibits are on display in the gallery?
How do I file a tax return?
What is the dose for an adult?
Where do penguins live?
What does the poem say about the sea?
How are the votes counted?
What is the address of the office?
Why did the two brothers quarrel?
How do I repair a flat tire?
What is the best time to plant tomatoes?
How does a jet engine work?
What did the minister promise the farmers?
Which language do people speak in Brazil?
How do volcanoes erupt?
What games do children play in the yard?
How is the temperature of the oven set?
When was the bridge closed?
What is the difference between a violin and a viola?
How do I cancel my subscription?
What does the horse eat?
Who discovered penicillin?
What did the scientists find in the cave?""".splitlines()
"""Questions that `RSERetriever.fit_score_floor` asks to measure the scores of unrelated questions.

They cover so many subjects that the documents may answer a few of them; only the median and the
spread of their scores count.
"""
