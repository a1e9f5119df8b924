"""What every room needs and none owns (arrays, checks, JSON, progress, whole files): may import ``errors``, and no other room."""
