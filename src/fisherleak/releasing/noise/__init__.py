"""The noise of a release: what was asked for, its penalty and its shape; may import what ``releasing`` may."""
