"""The best model under a limit, among candidates, with the choice counted; may import what ``protection`` may."""
