"""The command line, ``langchain-rse``; needs the extra ``cli``."""
