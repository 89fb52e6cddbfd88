<?php
// $headers: array_change_key_case(getallheaders()); $body: file_get_contents('php://input'); $publicKey: whpk_…
function verify(array $headers, string $body, string $publicKey): bool
{
    $key = base64_decode(preg_replace('/^whpk_/', '', $publicKey));
    $id = $headers['webhook-id'] ?? '';
    $timestamp = $headers['webhook-timestamp'] ?? '';
    if (!ctype_digit($timestamp) || abs(time() - (int) $timestamp) > 300) {
        return false; // missing, too old or too new
    }
    foreach (explode(' ', $headers['webhook-signature'] ?? '') as $got) {
        $signature = str_starts_with($got, 'v1a,') ? base64_decode(substr($got, 4)) : '';
        if (strlen($signature) === SODIUM_CRYPTO_SIGN_BYTES
            && sodium_crypto_sign_verify_detached($signature, "$id.$timestamp.$body", $key)) {
            return true;
        }
    }
    return false;
}
