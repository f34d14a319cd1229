"""Passages on the pages of their PDF: where their lines are, and pictures with them marked."""

from langchain_rse.pages.marking import Box, boxes, render

__all__ = ["Box", "boxes", "render"]
