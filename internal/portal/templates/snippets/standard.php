<?php
// $headers: array_change_key_case(getallheaders()); $body: file_get_contents('php://input'); $secret: whsec_…
function verify(array $headers, string $body, string $secret): bool
{
    $key = base64_decode(preg_replace('/^whsec_/', '', $secret));
    $id = $headers['webhook-id'] ?? '';
    $timestamp = $headers['webhook-timestamp'] ?? '';
    if (!ctype_digit($timestamp) || abs(time() - (int) $timestamp) > 300) {
        return false; // missing, too old or too new
    }
    $want = 'v1,' . base64_encode(hash_hmac('sha256', "$id.$timestamp.$body", $key, true));
    foreach (explode(' ', $headers['webhook-signature'] ?? '') as $got) {
        if (hash_equals($want, $got)) {
            return true;
        }
    }
    return false;
}
