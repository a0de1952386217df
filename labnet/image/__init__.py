"""The images of the process runtime: what each name starts."""
