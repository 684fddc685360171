"""The text form of the IR: `to_text` prints, `parse` reads it back."""
