"""The room that joins all others: from a call of a kernel to its run on a device."""
