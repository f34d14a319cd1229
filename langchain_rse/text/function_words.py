"""Function words: words of a query that do not describe what it asks for.

"How do I read a file?" asks about *read* and *file*; *how*, *do*, *I* and *a* occur in every text.
The lists are short on purpose: articles, pronouns, question words, auxiliary verbs, prepositions
and conjunctions of common languages. Published lists, as in the packages stop-words and
stopwordsiso, also contain content words: *computer*, *system*, *corresponding*. Scripts without
spaces between words need no list, because their words are pairs of characters.
"""

# ruff: noqa: RUF001 - letters of other scripts are intended

from collections.abc import Mapping

# Single letters are the rest of "what's", "don't" and "l'art".
FUNCTION_WORDS: Mapping[str, str] = {
    "English": """
        a an the this that these those such same other another each every both either neither
        all any some no none not only own more most much many few less least i me my mine myself
        we our ours ourselves you your yours yourself yourselves he him his himself she her hers
        herself it its itself they them their theirs themselves one someone somebody something
        anyone anybody anything everyone everybody everything nobody nothing what which who whom
        whose when where why how whether whatever whichever whoever am is are was were be been
        being have has had having do does did doing done can could shall should will would may
        might must ought cannot let get gets got and or but nor if then else than so because as
        while until unless although though since of at by for with about against between among
        into onto through during before after above below to from up down in out on off over
        under within without upon per via toward towards across along around behind beside
        besides beyond near again further once here there also too very just ever never always
        still already yet now please s t d ll m re ve don didn doesn isn aren wasn weren hasn
        haven hadn won wouldn couldn shouldn ain ma""",
    "German": """
        der die das den dem des ein eine einen einem einer eines kein keine keinen keinem keiner
        keines dieser diese dieses diesen diesem jener jene jenes jenen jenem jeder jede jedes
        jeden jedem mancher manche manches solche solcher solches alle aller alles allen allem
        beide beiden andere anderer anderes anderen anderem einige einiger einigen etwas nichts
        ich mich mir mein meine meinen meinem meiner meines du dich dir dein deine deinen deinem
        deiner er ihn ihm sein seine seinen seinem seiner seines sie ihr ihre ihren ihrem ihrer
        ihres ihnen es wir uns unser unsere unseren unserem unserer euch euer eure man sich
        selbst wer wen wem wessen was welche welcher welches welchen welchem wann wo woher wohin
        wie warum wieso weshalb wozu womit wodurch worin worauf wofür bin bist ist sind seid war
        warst waren wart gewesen wäre wären habe hast hat haben habt hatte hatten hätte hätten
        werde wirst wird werden werdet wurde wurden worden würde würden kann kannst können könnt
        konnte konnten könnte könnten muss musst müssen musste mussten soll sollen sollte
        sollten will wollen wollte wollten darf dürfen durfte mag mögen möchte lassen und oder
        aber denn sondern doch wenn weil dass daß ob als falls damit sowie sowohl weder noch in
        im ins an am ans auf aus bei beim bis durch für gegen ohne um von vom vor zu zum zur
        nach mit seit während wegen über unter zwischen neben hinter nicht auch nur schon noch
        sehr so da dort hier dann nun bereits immer wieder etwa ja nein""",
    "French": """
        le la les l un une des du de d au aux ce cet cette ces c ça cela ceci mon ma mes ton ta
        tes son sa ses notre nos votre vos leur leurs tout toute tous toutes autre autres même
        mêmes aucun aucune chaque plusieurs quelque quelques je j me m moi tu te t toi il elle
        on nous vous ils elles lui eux se s soi y en qui que qu quoi dont où quand comment
        pourquoi combien quel quelle quels quelles lequel laquelle lesquels lesquelles auquel
        duquel est-ce suis es est sommes êtes sont été étais était étaient étions être sera
        seront serait ai as a avons avez ont avait avaient avoir aura auront aurait eu fait
        faire font peut peuvent pouvoir doit doivent devoir va vont et ou mais donc or ni car si
        comme puisque lorsque à dans par pour sur sous avec sans chez vers entre pendant depuis
        avant après contre selon ne n pas plus moins très aussi bien encore déjà ici là alors""",
    "Spanish": """
        el la los las lo un una unos unas al del este esta esto estos estas ese esa eso esos
        esas aquel aquella aquellos aquellas mi mis tu tus su sus nuestro nuestra nuestros
        nuestras otro otra otros otras todo toda todos todas mismo misma algún alguno alguna
        algunos algunas ningún ninguno ninguna cada ambos yo me mí tú te ti él ella ello
        nosotros vosotros ellos ellas usted ustedes le les nos os se qué que quién quien quiénes
        quienes cuál cual cuáles cuales cuándo cuando dónde donde adónde cómo como cuánto cuánta
        cuántos cuántas cuyo cuya cuyos cuyas soy eres es somos son era eran fue fueron ser sido
        siendo sea sean sería estoy está están estaba estaban estar he has ha hemos han había
        habían haber hay tiene tienen tenía tener puede pueden podía poder debe deben hace hacen
        hacer y e o u pero sino ni si porque pues aunque mientras de a en por para con sin sobre
        entre hasta desde hacia según durante contra tras ante bajo no sí más menos muy también
        ya aún todavía así aquí allí""",
    "Italian": """
        il lo la i gli le l un uno una di del dello della dei degli delle a al allo alla ai agli
        alle da dal dallo dalla dai dagli dalle in nel nello nella nei negli nelle su sul sullo
        sulla sui sugli sulle con per tra fra questo questa questi queste quello quella quelli
        quelle quel mio mia miei mie tuo tua suo sua suoi sue nostro nostra loro altro altra
        altri altre ogni tutto tutta tutti tutte stesso stessa alcuni alcune nessuno nessuna io
        me mi tu te ti lui lei egli ella noi ci voi vi essi si se ne che chi cui cosa quale
        quali quando dove come perché quanto quanta quanti quante sono sei è siamo siete era
        erano fu furono essere stato stata stati state sia sarà sarebbe ho hai ha abbiamo hanno
        aveva avevano avere può possono potere deve devono dovere fa fare viene e ed o od ma
        però né se anche mentre non più meno molto già ancora così qui lì dopo prima senza
        contro secondo durante verso""",
    "Portuguese": """
        o a os as um uma uns umas do da dos das no na nos nas ao à aos às pelo pela pelos pelas
        este esta isto estes estas esse essa isso esses essas aquele aquela aquilo meu minha seu
        sua seus suas nosso nossa outro outra outros outras todo toda todos todas mesmo mesma
        algum alguma alguns algumas nenhum nenhuma cada eu me mim tu te ti ele ela você vocês
        nós vós eles elas lhe lhes se que quem qual quais quando onde como porque porquê quanto
        quanta quantos quantas cujo cuja sou és é somos são era eram foi foram ser sido sendo
        seja será seria estou está estão estava estar tenho tem têm tinha ter há haver havia
        pode podem poder deve devem faz fazem fazer e ou mas nem se pois embora enquanto de em
        por para com sem sobre entre até desde durante contra após ante sob não sim mais menos
        muito também já ainda assim aqui ali""",
    "Dutch": """
        de het een deze dit die dat mijn jouw uw zijn haar ons onze hun andere elk elke ieder
        iedere alle alles beide geen zelf ik mij me jij je jou u hij hem zij ze haar wij we
        jullie hen er men zich wie wat welke welk wanneer waar waarom hoe hoeveel waarin waarmee
        waardoor ben bent is was waren geweest wordt worden werd werden heb hebt heeft hebben
        had hadden kan kunt kunnen kon konden moet moeten moest zal zult zullen zou zouden mag
        mogen wil willen doet doen en of maar want dus als dan omdat hoewel terwijl toen van in
        op te aan met voor door over bij naar uit om tot tegen onder tussen na tijdens zonder
        vanaf niet ook nog al zo wel hier daar nu zeer meer""",
    "Swedish": """
        en ett den det de denna detta dessa min mitt mina din ditt dina sin sitt sina vår vårt
        våra er ert deras dess hans hennes annan annat andra varje alla allt några någon något
        ingen inget samma själv jag mig du dig han honom hon henne vi oss ni dem man sig vem vad
        vilken vilket vilka vems när var varför hur vart varifrån är var vara varit blir blev
        bli har hade ha haft kan kunde ska skall skulle vill ville måste får fick gör göra och
        eller men utan om att som än då eftersom medan i på av för med till från vid under över
        mellan genom efter före mot hos utan inte också bara redan så här där nu mycket mer""",
    "Danish and Norwegian": """
        en et den det de denne dette disse min mit mitt mine din dit ditt dine sin sit sitt sine
        vor vores vår vårt våre deres dens dets hans hendes hennes anden annen andet annet andre
        hver alle alt nogen noget noen noe ingen intet samme selv jeg mig meg du dig deg han ham
        hun hende henne vi os oss i jer dere dem man sig seg hvem hvad hva hvilken hvilket
        hvilke hvis hvornår når hvor hvorfor hvordan er var være været vært bliver blir blev ble
        har havde hadde have ha kan kunne skal skulle vil ville må måtte gør gjør og eller men
        om at som end enn da fordi mens på af av for med til fra ved under over mellem mellom
        gennem gjennom efter etter før mod mot uden uten hos ikke også bare kun så her der nu nå
        meget mer mere""",
    "Polish": """
        ten ta to ci te tego tej tych temu tym tymi tamten tamta mój moja moje twój twoja jego
        jej ich nasz nasza nasze wasz swój swoja swoje inny inna inne każdy każda każde
        wszystkie wszystko żaden żadna sam sama ja mnie mi ty ciebie ci on ona ono jemu go ją my
        nas nam wy was wam oni one im się siebie kto kogo komu co czego czemu czym jaki jaka
        jakie jakich który która które których którym kiedy gdzie skąd dokąd dlaczego jak ile
        czy jestem jesteś jest jesteśmy są był była było byli były być będzie będą został
        została ma mam mają miał miała mieć może mogą można musi należy trzeba i a oraz lub albo
        ale ani że żeby aby jeśli jeżeli bo ponieważ gdy niż w we z ze na do od dla po przez
        przy pod nad przed za o u między bez podczas nie tak także też już jeszcze tylko bardzo
        tu tam""",
    "Czech": """
        ten ta to ti ty tento tato toto tito tyto toho té těch tomu tím můj moje tvůj jeho její
        jejich náš naše váš svůj svá své jiný jiná jiné každý každá každé všechny všechno žádný
        sám já mě mi mne ty tě on ona ono mu ho ji my nás nám vy vás vám oni je jim se si sebe
        kdo koho komu co čeho čemu čím jaký jaká jaké jakých který která které kterých kterým
        kdy kde odkud kam proč jak kolik zda jsem jsi je jsme jste jsou byl byla bylo byli byly
        být bude budou má mám mají měl měla mít může mohou lze musí i a nebo ale ani že aby
        jestli jestliže protože když než v ve z ze s se na do od pro po přes při pod nad před za
        o u mezi bez během k ke ne ano také už ještě jen jenom velmi tak zde tam""",
    "Russian": """
        этот эта это эти этого этой этих этому этим тот та то те того той тех тому тем такой
        такая такое такие мой моя моё мои твой твоя его её их наш наша наше наши ваш ваша ваше
        ваши свой своя своё свои своего своей своих другой другая другие каждый каждая каждое
        все всё всех весь вся сам сама сами самый самая самое я меня мне мной ты тебя тебе он
        ему им нём она ей ней оно мы нас нам вы вас вам они ими них ним себя себе кто кого кому
        кем что чего чему чем какой какая какое какие каких каким каком какую который которая
        которое которые которого которой которых которым когда где куда откуда почему зачем как
        сколько чей чья чьё чьи ли есть был была было были быть будет будут является являются
        являлся может могут можно должен должна должны нужно надо и или но а да ни если чтобы
        потому хотя пока в во на с со к ко от до из у о об по за над под при про для без через
        между перед после около во время не нет же бы б лишь только уже ещё еще также тоже так
        там тут здесь""",
    "Ukrainian": """
        цей ця це ці цього цієї цих цьому цим той та те ті того тієї тих тому тим такий така
        таке такі мій моя моє мої твій твоя його її їх наш наша наше наші ваш ваша свій своя
        своє свої інший інша інші кожен кожна кожне всі все весь вся сам сама самі я мене мені
        ти тебе він йому вона їй воно ми нас нам ви вас вам вони ними них себе собі хто кого
        кому ким що чого чому чим який яка яке які якого якої яких яким коли де куди звідки
        навіщо як скільки чи є був була було були бути буде будуть може можуть можна повинен
        повинна треба потрібно і й або але а ні якщо щоб бо хоча поки в у на з із зі до від за
        над під при про для без через між перед після біля по о об не так же б би лише тільки
        вже ще також там тут""",
    "Turkish": """
        bir bu şu o bunun şunun onun bunu şunu onu bunlar şunlar onlar böyle şöyle öyle her bazı
        bütün tüm hiç diğer başka aynı kendi ben beni bana benim sen seni sana senin biz bizi
        bize bizim siz sizi size sizin ona onların kim kimi kime kimin ne neyi neye neden niçin
        niye nasıl nerede nereden nereye hangi hangisi kaç mi mı mu mü dir dır dur dür idi ise
        olan olarak olduğu oldu olur olması var yok değil edilir eden etmek ve veya ya da de ile
        ama fakat ancak çünkü eğer ki için gibi kadar göre sonra önce üzerine üzerinde altında
        arasında karşı doğru beri daha en çok az sadece yalnız artık şimdi""",
    "Greek": """
        ο η το οι τα του της των τον την τους τις ένας μια μία ένα ενός αυτός αυτή αυτό αυτοί
        αυτές αυτά εκείνος εκείνη εκείνο άλλος άλλη άλλο κάθε όλος όλη όλο όλοι όλα ίδιος εγώ με
        μου εσύ σε σου εμείς μας εσείς σας ποιος ποια ποιο ποιοι ποιες τι πότε πού που πώς πως
        γιατί πόσο πόσα πόσοι όπου όταν είμαι είσαι είναι είμαστε ήταν είχε έχει έχουν έχω
        μπορεί μπορούν πρέπει και κι ή αλλά ούτε αν εάν ότι να θα ώστε επειδή ενώ σε στο στη
        στην στον στα στους στις από για με χωρίς κατά μετά πριν μεταξύ προς υπό ως δεν μη μην
        όχι ναι πολύ πιο επίσης ήδη ακόμα μόνο εδώ εκεί""",
    "Arabic": """
        هذا هذه ذلك تلك هؤلاء أولئك الذي التي الذين اللاتي اللواتي اللذان أنا نحن أنت أنتم أنتن
        هو هي هم هن هما إياه نفسه نفسها من ما ماذا متى أين كيف لماذا لم كم أي أية هل أ بم بماذا
        عم فيم ممن مما كان كانت كانوا يكون تكون ليس ليست يمكن يوجد توجد تم قد سوف و أو ثم بل لكن
        لكنه إن أن أنه أنها إذا لو كما كي لأن حتى حيث عندما بينما في على إلى عن مع بين عند منذ
        خلال حول بعد قبل فوق تحت ضد دون بدون لدى لدي نحو به بها فيه فيها عليه عليها منه منها
        إليه إليها له لها لهم بهم عنه عنها لا لن كل بعض غير جميع أيضا أيضًا فقط هناك هنا جدا
        جدًا""",
    "Hebrew": """
        זה זו זאת אלה אלו הזה הזאת האלה אותו אותה אותם אחר אחרת אחרים כל כמה אני אתה את אתם
        אנחנו הוא היא הם הן לי לך לו לה לנו להם שלי שלך שלו שלה שלנו שלהם מי מה איזה איזו אילו
        מתי איפה היכן מאין לאן למה מדוע איך כיצד האם היה הייתה היו להיות יהיה תהיה יש אין יכול
        יכולה יכולים צריך ניתן ו או אבל אלא אם כי ש אשר כאשר כדי ב ל מ של על עם אל בין אחרי לפני
        תחת ללא בלי עד לפי אצל לא גם רק עוד כבר מאוד יותר כאן שם""",
    "Persian": """
        این آن اینها آنها همین همان چنین دیگر هر همه هیچ برخی بعضی خود من تو او ما شما ایشان وی
        چه کی کجا چرا چگونه چطور کدام چند چقدر آیا که است هست هستند بود بودند باشد شد شده شدند
        می‌شود دارد دارند داشت داشتند کرد کردند کرده می‌کند می‌کنند می‌تواند توان باید خواهد و
        یا اما ولی اگر تا زیرا چون پس در به از با برای بر بین روی زیر پیش بعد قبل طی درباره را
        نه هم نیز فقط بسیار خیلی هنوز""",
    "Hindi": """
        यह ये वह वे इस इसे इसका इसकी इसके इसमें इन इनका इनकी इनके उस उसे उसका उसकी उसके उन उनका
        उनकी उनके इन्हें उन्हें इन्होंने उन्होंने इसने उसने जो जिस जिसे जिसका जिसकी जिसके जिन
        जिनका जिन्हें जिन्होंने अपना अपनी अपने मैं मुझे मेरा मेरी मेरे हम हमें हमारा हमारी हमारे
        तुम तुम्हें तुम्हारा आप आपका आपकी आपके कौन किस किसे किसका किसकी किसके किसने किन किन्हें
        क्या कब कहाँ कहां क्यों कैसे कैसा कैसी कितना कितनी कितने कौनसा कौनसी किसी कोई कुछ है हैं
        था थी थे हो होता होती होते होना होने हुआ हुई हुए रहा रही रहे गया गयी गई गए कर करना करने
        करता करती करते किया की दिया सकता सकती सकते चाहिए और या लेकिन परंतु परन्तु कि यदि अगर तो
        क्योंकि जब तब जैसे का के को से में पर ने तक लिए साथ द्वारा बाद पहले ऊपर नीचे बीच बिना
        दौरान नहीं न ही भी सभी एक बहुत अधिक यहाँ वहाँ""",
    "Indonesian": """
        ini itu tersebut para setiap semua beberapa lain lainnya sendiri sebuah suatu seorang
        saya aku kami kita kamu anda engkau dia ia mereka nya siapa apa apakah mana kapan
        bilamana dimana bagaimana mengapa kenapa berapa adalah ialah merupakan ada menjadi telah
        sudah sedang akan dapat bisa harus boleh dan atau tetapi tapi namun jika kalau karena
        sebab agar supaya bahwa yang di ke dari pada dalam untuk dengan tanpa oleh tentang
        antara sejak hingga sampai terhadap tidak bukan juga hanya sangat lebih""",
    "Vietnamese": """
        này kia đó ấy đây các những một mỗi mọi tất cả khác tôi ta chúng mình bạn anh chị ông bà
        nó họ ai gì nào đâu khi bao giờ nhiêu sao thế vì tại là có được bị đã đang sẽ phải cần
        thể nên và hoặc hay nhưng nếu thì mà để rằng do bởi của ở trong ngoài trên dưới với cho
        từ đến về qua theo giữa sau trước không chưa cũng chỉ rất hơn""",
    "Korean": """
        이 그 저 이것 그것 저것 이런 그런 저런 나 저는 나는 너 우리 그는 그녀는 그들 그들은 누구
        누가 누구의 무엇 무엇이 무엇을 무엇인가 무엇인가요 무엇입니까 뭐 언제 어디 어디서 어디에
        어디에서 왜 어떻게 어떤 어느 몇 얼마나 있다 있는 있나요 있습니까 없다 없는 이다 인가
        인가요 입니까 하는 하나요 합니까 했나요 되는 된 되나요 그리고 또는 그러나 하지만 만약 및
        등 의 에 에서 은 는 을 를 와 과 도 로 으로""",
}
"""The function words of each language, separated by spaces."""

ASKING_WORDS = """
    what which who whom whose when where why how whether
    wer wen wem wessen welche welcher welches welchen welchem wann wo woher wohin wie warum wieso
    weshalb wozu womit wodurch qui que quoi où quand comment pourquoi combien quel quelle quels
    quelles lequel laquelle qué quién quiénes cuál cuáles cuándo dónde adónde cómo cuánto cuánta
    cuántos cuántas chi cosa quale quali quando dove come perché quanto quanta quanti quante
    quem qual quais onde quantos quantas wat welke welk wanneer waar waarom hoe hoeveel
    vem vad vilken vilket vilka vems varför hur vart varifrån
    hvem hvad hva hvilken hvilket hvilke hvornår hvor hvorfor hvordan
    kto kogo komu czego czemu czym jaki jaka jakie który która które kiedy gdzie skąd dlaczego
    jak ile czy kdo jaký jaká jaké který která které kdy kde odkud kam proč kolik
    кто что какой какая какое какие который когда где откуда куда почему как сколько чей
    хто що який яка яке які коли де звідки куди чому як скільки
    kimi kime kimin neyi neden niçin niye nasıl nerede nereden nereye hangi hangisi kaç mi mı mü
    ποιος ποια ποιο ποιοι ποιες τι πότε πού πώς γιατί πόσο πόσα πόσοι
    ما ماذا متى أين كيف لماذا كم أي أية هل
    מי מה איזה איזו אילו מתי איפה היכן מאין לאן למה מדוע איך כיצד האם כמה
    چه کی کجا چرا چگونه چطور کدام چند چقدر آیا
    कौन किस किसे किसका क्या कब कहाँ कहां क्यों कैसे कितना कितनी कितने कौनसा कौनसी
    siapa apa apakah mana kapan bilamana dimana bagaimana mengapa kenapa berapa gì nào đâu
    누구 누가 누구의 무엇 무엇이 무엇을 무엇인가 무엇인가요 무엇입니까 뭐 언제 어디 어디서 어디에
    어디에서 왜 어떻게 어떤 어느 몇 얼마나 있나요 있습니까 인가 인가요 입니까 하나요 합니까 했나요
    되나요"""
"""Words that ask, of all languages: one of them in a query tells its language."""

SHARED_WORDS = """
    al alla alle allen alt ben bin but car con come comment co com da dan dank de del den der des
    di die dig door du dos eden el em en end er era et falls fan font fra gross ha han hans has hat
    ho il jim kim la las le les los man mag mas men met mi min mine mit mon mu na nam non ne par
    pas per plus pro qua sam se sea si sim sin sit size son state su sue ta tan te ten ti till tot
    um un van vi vii von want war wo yang yo"""
"""Function words that are English words or parts of names as well: they tell no language."""
