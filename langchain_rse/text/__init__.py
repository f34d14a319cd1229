"""What all rooms know of text, in any script. Imports nothing of the package."""
