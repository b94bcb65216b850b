"""Extensions of Sphinx that build this documentation."""
