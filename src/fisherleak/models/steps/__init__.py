"""Fitted preprocessing, step by step: scalers, encoders, imputers; may import what ``models`` may."""
