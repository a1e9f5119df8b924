"""Cards: every field that one may hold, its sentences, its digest and signature; may import what ``releasing`` may."""
