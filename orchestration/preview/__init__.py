"""What the working tree would publish, built beside what is published, and compared with it."""
