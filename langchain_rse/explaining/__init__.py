"""What each step of a query saw, for people: `RSETrace`, as text, tables and plots."""
