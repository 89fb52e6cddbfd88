<?php
// $headers: array_change_key_case(getallheaders()); $body: file_get_contents('php://input'); $secret: as it was shown
function verify(array $headers, string $body, string $secret): bool
{
    $want = 'sha256=' . hash_hmac('sha256', $body, $secret);
    return hash_equals($want, $headers['x-hub-signature-256'] ?? '');
}
