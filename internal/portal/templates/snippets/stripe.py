import hashlib
import hmac
import time


def verify(headers, body, secret):
    """headers: those of the request; body: its bytes as they came; secret: as it was shown"""
    parts = [part.partition("=")[::2] for part in headers.get("signature-header-name", "").split(",")]
    timestamp = next((value for name, value in parts if name == "t"), "")
    if not timestamp.isdigit() or abs(time.time() - int(timestamp)) > 300:
        return False  # missing, too old or too new
    want = hmac.new(secret.encode(), f"{timestamp}.".encode() + body, hashlib.sha256).hexdigest().encode()
    return any(name == "v1" and hmac.compare_digest(got.encode(), want) for name, got in parts)
