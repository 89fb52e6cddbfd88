import base64
import hashlib
import hmac
import time


def verify(headers, body, secret):
    """headers: those of the request; body: its bytes as they came; secret: whsec_…"""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    message_id, timestamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not timestamp.isdigit() or abs(time.time() - int(timestamp)) > 300:
        return False  # missing, too old or too new
    signed = f"{message_id}.{timestamp}.".encode() + body
    want = b"v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest())
    return any(hmac.compare_digest(got.encode(), want) for got in headers.get("webhook-signature", "").split())
