r"""Ways in which a model leaves that are not noise on its parameters: may import what ``engine`` may, and no other folder.

One file each: what is told, and how much Fisher information that is about the parameters.
"""
