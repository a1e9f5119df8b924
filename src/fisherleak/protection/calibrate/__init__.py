"""From a limit to the noise that keeps it, for the rows present; may import what ``protection`` may."""
