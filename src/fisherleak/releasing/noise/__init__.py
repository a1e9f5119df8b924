"""The noise of a released table: for any record within the bounds, and its covariance; may import what ``releasing`` may."""
