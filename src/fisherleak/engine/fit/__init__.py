"""Fits: the risk of any number of outputs, its Hessian, and Newton's method. May import losses and rows."""
