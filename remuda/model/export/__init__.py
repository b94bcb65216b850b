"""Export trained generators as a folder that works without remuda.

portable.py  select the generators, their weights, and how labels choose among them
tracing.py   trace one generator as a graph of PyTorch operators with dynamic batch size
source.py    write that graph as Python code
onnx.py      write it as an ONNX graph in which labels choose the weights
manifest.py  describe the exported model in config.json
card.py      write the model card; markdown.py keeps all names in it plain text
folder.py    write the folder: ``export`` and ``write_export``
loaders/     files that are copied into the folder; they must not import remuda
"""
