require "openssl"

# headers: request.headers; body: request.raw_post, the bytes as they came; secret: as it was shown
def verify(headers, body, secret)
  timestamp = headers["x-delivery-timestamp"]
  return false if (Time.now.to_i - timestamp.to_i).abs > 300 # missing, too old or too new
  want = OpenSSL::HMAC.hexdigest("SHA256", secret, "#{timestamp}.".b + body.b)
  OpenSSL.secure_compare(headers["x-delivery-signature"].to_s, want)
end
