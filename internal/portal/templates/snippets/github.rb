require "openssl"

# headers: request.headers; body: request.raw_post, the bytes as they came; secret: as it was shown
def verify(headers, body, secret)
  want = "sha256=" + OpenSSL::HMAC.hexdigest("SHA256", secret, body)
  OpenSSL.secure_compare(headers["x-hub-signature-256"].to_s, want)
end
