"""How likely a release is with one row or another: in closed form or by draws; may import what ``attacks`` may."""
