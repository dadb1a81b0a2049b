"""What is kept and what goes: facts, a plan as a value, and dropping what the plan names."""
