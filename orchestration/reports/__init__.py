"""What a run did and what came of it, as one page for the people who decide; from stored rows only."""
