import hashlib
import hmac
import time


def verify(headers, body, secret):
    """headers: those of the request; body: its bytes as they came; secret: as it was shown"""
    timestamp = headers.get("x-delivery-timestamp", "")
    if not timestamp.isdigit() or abs(time.time() - int(timestamp)) > 300:
        return False  # missing, too old or too new
    want = hmac.new(secret.encode(), f"{timestamp}.".encode() + body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(headers.get("x-delivery-signature", "").encode(), want.encode())
