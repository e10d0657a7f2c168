"""Sessions on their way out and in: export formats, masking of secrets, import.

Start reading at `exporting.py` and `importing.py`. Nothing here knows an agent, a provider or a
run; everything goes through the store's public methods.
"""
