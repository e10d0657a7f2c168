"""The style of an exported page, and the policy that lets this style and nothing else in.

Invariant: no script, no font, no image, no address; light and dark as the reader has chosen, and
for paper. Whatever a colour says, a word says too.
"""

from __future__ import annotations

import base64
import hashlib

STYLE = """
:root { color-scheme: light dark; --ink: #1a1a1a; --paper: #fff; --faint: #5c5c5c; --line: #d0d0d0;
  --box: #f5f5f3; --user: #1f5fae; --assistant: #2b7040; --tool: #7d4e00; --alarm: #a81d1d; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8e8e6; --paper: #161616; --faint: #a6a6a6;
  --line: #444; --box: #212121; --user: #8ab8f0; --assistant: #8fd0a2; --tool: #e5b667;
  --alarm: #ff9a94; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 52rem; padding: 1.5rem; background: var(--paper);
  color: var(--ink); font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.25rem; } h3, h4 { font-size: 1rem; margin: 0 0 .4rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; font-size: .875rem; }
dt { color: var(--faint); } dd { margin: 0; }
.run { border-block-start: 1px solid var(--line); padding-block-start: 1rem; }
.message { margin-block: 1.25rem; padding-inline-start: .9rem;
  border-inline-start: .25rem solid var(--line); }
.user { border-color: var(--user); } .assistant { border-color: var(--assistant); }
.tool { border-color: var(--tool); }
.said { white-space: pre-wrap; tab-size: 4; unicode-bidi: plaintext; margin: 0 0 .5rem; }
.code { white-space: pre-wrap; font: .875rem/1.45 ui-monospace, monospace; background: var(--box);
  padding: .6rem .8rem; border-radius: .3rem; }
.call { margin-block: .8rem; } .call > p { margin: 0 0 .4rem; font-weight: 600; }
.mark, .time { color: var(--faint); font-size: .875rem; font-weight: 400; }
.failed > h3, .undone > h3, .bad { color: var(--alarm); }
.undone .said { text-decoration: line-through; text-decoration-thickness: 1px; }
details { margin: 0 0 .5rem; } summary { color: var(--faint); font-size: .875rem; }
footer { margin-block-start: 2rem; color: var(--faint); font-size: .875rem; }
@media print { body { max-width: none; padding: 0; } .call, h2, h3, h4 { break-inside: avoid; } }
"""
_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
POLICY = f"default-src 'none'; style-src 'sha256-{_HASH}'; base-uri 'none'; form-action 'none'"
