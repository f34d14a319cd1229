"""The command ``langchain-rse``; needs the extra ``cli``."""
