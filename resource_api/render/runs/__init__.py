"""What runs did: the document of a run, and its other forms; how it was carried out is no part of it."""
