<?php
// $headers: array_change_key_case(getallheaders()); $body: file_get_contents('php://input'); $secret: as it was shown
function verify(array $headers, string $body, string $secret): bool
{
    $timestamp = '';
    $signatures = [];
    foreach (explode(',', $headers['signature-header-name'] ?? '') as $part) {
        [$name, $value] = explode('=', $part, 2) + ['', ''];
        if ($name === 't') {
            $timestamp = $value;
        } elseif ($name === 'v1') {
            $signatures[] = $value;
        }
    }
    if (!ctype_digit($timestamp) || abs(time() - (int) $timestamp) > 300) {
        return false; // missing, too old or too new
    }
    $want = hash_hmac('sha256', "$timestamp.$body", $secret);
    foreach ($signatures as $got) {
        if (hash_equals($want, $got)) {
            return true;
        }
    }
    return false;
}
