"""The collapse laboratory: many copies of one small GPT side by side, each with its own learning rate and fault."""
