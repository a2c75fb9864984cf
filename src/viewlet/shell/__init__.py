"""`viewlet shell`: statements as they are typed or read from a script, and their answers."""
