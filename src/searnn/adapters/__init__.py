"""Models of other libraries as models of this one; each adapter is a module, imported by who uses it."""
