def limit(most): pass
