"""Noisy SGD, followed along the path of training; may import what ``nn`` may."""
