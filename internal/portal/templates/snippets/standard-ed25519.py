import base64
import time

from cryptography.exceptions import InvalidSignature  # pip install cryptography
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey


def verify(headers, body, public_key):
    """headers: those of the request; body: its bytes as they came; public_key: whpk_…"""
    key = Ed25519PublicKey.from_public_bytes(base64.b64decode(public_key.removeprefix("whpk_")))
    message_id, timestamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not timestamp.isdigit() or abs(time.time() - int(timestamp)) > 300:
        return False  # missing, too old or too new
    signed = f"{message_id}.{timestamp}.".encode() + body
    for got in headers.get("webhook-signature", "").split():
        if got.startswith("v1a,"):
            try:
                key.verify(base64.b64decode(got[4:]), signed)
                return True
            except (InvalidSignature, ValueError):
                pass
    return False
