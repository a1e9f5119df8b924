"""What every folder needs and none owns (arrays, checks, JSON, progress, files): may import ``errors``, and no other folder."""
