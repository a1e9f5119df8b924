"""The tables and figures of the paper, and experiments beside them, one module each; may import what ``reproduce`` may."""
