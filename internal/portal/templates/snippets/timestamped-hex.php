<?php
// $headers: array_change_key_case(getallheaders()); $body: file_get_contents('php://input'); $secret: as it was shown
function verify(array $headers, string $body, string $secret): bool
{
    $timestamp = $headers['x-delivery-timestamp'] ?? '';
    if (!ctype_digit($timestamp) || abs(time() - (int) $timestamp) > 300) {
        return false; // missing, too old or too new
    }
    $want = hash_hmac('sha256', "$timestamp.$body", $secret);
    return hash_equals($want, $headers['x-delivery-signature'] ?? '');
}
