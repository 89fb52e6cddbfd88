require "openssl"

# headers: request.headers; body: request.raw_post, the bytes as they came; public_key: whpk_…
def verify(headers, body, public_key)
  raw = public_key.delete_prefix("whpk_").unpack1("m0")
  key = OpenSSL::PKey.read(["302a300506032b6570032100"].pack("H*") + raw)
  id, timestamp = headers["webhook-id"], headers["webhook-timestamp"]
  return false if (Time.now.to_i - timestamp.to_i).abs > 300 # missing, too old or too new
  signed = "#{id}.#{timestamp}.".b + body.b
  headers["webhook-signature"].to_s.split.any? do |got|
    got.start_with?("v1a,") && key.verify(nil, got[4..].unpack1("m"), signed)
  end
end
