"""Explains a query to people: `RSETrace`, what each step saw, as text, tables and plots."""
