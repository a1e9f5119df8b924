"""Files of released models: written in one form, read with every type checked, verified; may import what ``releasing`` may."""
