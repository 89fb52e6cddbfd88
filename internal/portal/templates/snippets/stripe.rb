require "openssl"

# headers: request.headers; body: request.raw_post, the bytes as they came; secret: as it was shown
def verify(headers, body, secret)
  parts = headers["signature-header-name"].to_s.split(",").map { |part| part.split("=", 2) }
  timestamp = parts.assoc("t")&.last
  return false if (Time.now.to_i - timestamp.to_i).abs > 300 # missing, too old or too new
  want = OpenSSL::HMAC.hexdigest("SHA256", secret, "#{timestamp}.".b + body.b)
  parts.any? { |name, got| name == "v1" && OpenSSL.secure_compare(got.to_s, want) }
end
