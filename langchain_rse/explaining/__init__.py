"""Explains a query: `RSETrace` shows what each step saw, as text, tables and plots."""
