r"""Models of several outputs: classes by softmax, several numbers at once. May import what ``engine`` may, but its norms.

Parameters are one row each for K outputs. Classes have one direction too many: adding the same to all of them changes no
probability, so the rows sum to zero (as at the minimum of any l2 penalty, and as scikit-learn has them). Everything is
computed in an orthonormal frame Q of what is left, (K, L) with L = K - 1: :math:`W = Q V`, V of shape (L, p). Several numbers
have no such direction: L = K, and Q is the identity.
"""
