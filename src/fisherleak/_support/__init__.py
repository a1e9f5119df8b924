"""What every room needs and none owns: arrays, checks, JSON, progress, whole files. Imports ``errors`` alone."""
