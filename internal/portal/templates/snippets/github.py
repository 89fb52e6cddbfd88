import hashlib
import hmac


def verify(headers, body, secret):
    """headers: those of the request; body: its bytes as they came; secret: as it was shown"""
    want = "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(headers.get("x-hub-signature-256", "").encode(), want.encode())
