require "openssl"

# headers: request.headers; body: request.raw_post, the bytes as they came; secret: whsec_…
def verify(headers, body, secret)
  key = secret.delete_prefix("whsec_").unpack1("m0")
  id, timestamp = headers["webhook-id"], headers["webhook-timestamp"]
  return false if (Time.now.to_i - timestamp.to_i).abs > 300 # missing, too old or too new
  want = "v1," + [OpenSSL::HMAC.digest("SHA256", key, "#{id}.#{timestamp}.".b + body.b)].pack("m0")
  headers["webhook-signature"].to_s.split.any? { |got| OpenSSL.secure_compare(got, want) }
end
