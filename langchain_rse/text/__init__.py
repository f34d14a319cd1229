"""What all rooms know of text: its words, in any script. Imports nothing of the package."""
