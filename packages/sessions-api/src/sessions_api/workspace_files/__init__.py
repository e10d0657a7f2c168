"""The workspace as a model may see it: tools that list, read and, when asked, write its files.

`tools` says what the model reads, `walk` finds a file without ever leaving the workspace,
`opening` reads and replaces what was found, `listing` orders a tree, `forbidden` knows what belongs
to us, `names` shows any file name as one line. Names point down in this order.
"""
